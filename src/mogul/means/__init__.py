"""What a model adds its head to: nothing, a plane with random coefficients, or a regressor such as a forest."""
