"""The three published networks that photo enhancement is made of, written from their descriptions.

SelfCalibratedIllumination   brightens dark pictures
AdaptiveTable                chooses a table of colours by what a picture shows
ResidualLocalFeatures        four times the sides

Each takes the state dict of its published weights (`alcove.features.photo_enhance.weights`) by the strict rules of
torch.
"""
