# Down to a hundredth of the setting's learning rate, as with its own network.
averaging = dict(lr2=1e-4)
