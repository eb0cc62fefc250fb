"""The built web interface in a browser."""
