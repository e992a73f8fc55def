"""The web page: what it is made of lies in static/, and files.py hands it out."""
