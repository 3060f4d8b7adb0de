# What the classification benchmarks share: 5 clients per round (10 and 20 are published too:
# --cfg-options client_sampler.clients_per_round=10), accuracy every 50 rounds and in every one of
# the last 100, whose mean is the reported metric. Rounds are short: a checkpoint every 100 of them.
_base_ = "runtime.py"

client_sampler = dict(type="UniformSampler", clients_per_round=5)
train_cfg = dict(
    type="FederatedTrainLoop",
    max_rounds=10_000,
    local_epochs=1,
    val_interval=50,
    val_last_rounds=100,
    val_last_interval=1,
)
val_evaluator = dict(type="Accuracy")
test_evaluator = val_evaluator
default_hooks = dict(checkpoint=dict(interval=100))
