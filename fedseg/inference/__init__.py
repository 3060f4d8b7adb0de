"""Using a trained model: predictions, exports, profiles, archives to share."""
