# The papers' rounds, participants and rates with this network are those of federated training; here
# they are the setting's.
_base_ = "../resnet18.py"
