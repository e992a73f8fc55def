"""Model folders: found, fetched, converted, read. Knows no device and no request."""
