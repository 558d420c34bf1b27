"""What a model adds its head to: nothing, or a plane with random coefficients."""
