# FedBABU, Oh et al., ICLR 2022: the head stays as it was drawn, clients train and share the body.
slot = ("algorithm", "personal")

algorithm = dict(_delete_=True, type="FedRep", personal_share=0.0)
personal = "@head"
