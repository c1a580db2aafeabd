"""Times a zoo of image networks with random weights on alcove and on its peers."""
