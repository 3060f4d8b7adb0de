# Every published SiloBN cell of FedDrive: its released code trains SiloBN in batches of 8,
# everything else in batches of 16.
_base_ = "idda_country_class_imbalance.py"

train_dataloader = dict(batch_size=8)
