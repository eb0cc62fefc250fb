"""What tests share: streams and tables to look at, brokers and workers to harm, a model that knows what is right."""
