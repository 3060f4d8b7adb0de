# A hundredth of the update's entries, the largest; the rest waits, Stich et al., NeurIPS 2018.
slot = "compression"

compression = dict(type="TopK", share=0.01)
