"""Times six on-device models, and the cost of a call alone, on alcove and on its peers."""
