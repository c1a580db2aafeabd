"""The three published networks that scene tags are made of, written from their descriptions.

MobileNetV2   1,000 ImageNet classes, and the feature map that embeddings come from
FastestDet    80 COCO categories, with where they are
BlazeFace     faces, as large as they are near

Each takes the state dict of its published weights (`alcove.features.scene_tags.weights`) by the strict rules of torch.
"""
