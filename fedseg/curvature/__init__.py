"""Curvature and landscapes of a loss: of any checkpoint, over any of its data, exactly."""
