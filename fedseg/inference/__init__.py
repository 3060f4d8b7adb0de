"""What a trained model is used for: predictions, exports, profiles, archives to share."""
