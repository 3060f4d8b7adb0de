"""Sends the largest hundredth of an update's entries.

Paper: Stich et al., NeurIPS 2018.

The rest waits for the client's next rounds.
"""

slot = "compression"

compression = dict(type="TopK", share=0.01)
