"""KV schemes: how the keys and values of a row are written, and read without expanding them."""
