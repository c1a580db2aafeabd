"""Times what paints and cuts out frames of video on alcove and its peers, by size of the frame and threads."""
