default_scope = 'fedseg'
randomness = {'seed': 0}
executor = {'type': 'InProcessExecutor'}
algorithm = {'type': 'FedAvg', 'server_optim': {'type': 'SGD', 'lr': 1.0}}
val_cfg = {'type': 'FederatedValLoop'}
test_cfg = {'type': 'FederatedTestLoop'}
default_hooks = {'checkpoint': {'type': 'FederatedCheckpointHook', 'interval': 10, 'keep_last': 2, 'keep_every': 0}}
model = {'type': 'MNISTCNN', 'num_classes': 10}
train_dataloader = {'type': 'ResidentData',
 'batch_size': 32,
 'dataset': {'type': 'MNISTDataset', 'data_root': 'data/mnist', 'split': 'train'},
 'partition': {'type': 'DirichletClassPartition', 'num_clients': 5, 'alpha': 0.1},
 'transforms': [{'type': 'Normalize', 'mean': [0.1307], 'std': [0.3081]}]}
val_dataloader = {'test': {'type': 'ResidentData',
          'batch_size': 1000,
          'dataset': {'type': 'MNISTDataset', 'data_root': 'data/mnist', 'split': 'test'},
          'transforms': [{'type': 'Normalize', 'mean': [0.1307], 'std': [0.3081]}]}}
test_dataloader = {'test': {'type': 'ResidentData',
          'batch_size': 1000,
          'dataset': {'type': 'MNISTDataset', 'data_root': 'data/mnist', 'split': 'test'},
          'transforms': [{'type': 'Normalize', 'mean': [0.1307], 'std': [0.3081]}]}}
val_evaluator = {'type': 'Accuracy'}
test_evaluator = {'type': 'Accuracy'}
client_sampler = {'type': 'UniformSampler', 'clients_per_round': 5}
optim_wrapper = {'type': 'OptimWrapper',
 'optimizer': {'type': 'SGD', 'lr': 0.001, 'momentum': 0, 'weight_decay': 0}}
train_cfg = {'type': 'FederatedTrainLoop',
 'max_rounds': 5,
 'local_epochs': 20,
 'val_interval': 1,
 'val_last_rounds': 1,
 'val_last_interval': 1}
setting = 'mnist_a01'
methods = ['fedavg']
experiment_name = 'mnist_a01_fedavg'
work_dir = '/tmp/pub/runs/course/mnist_a01_fedavg/seed0'
dtype = 'float32'
