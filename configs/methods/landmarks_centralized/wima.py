# WIMA's rounds and batches on Landmarks are those of 1,262 clients; a window of epochs is not
# published.
_base_ = "../wima.py"
