"""Each part and each verb on real parts, in detail."""
