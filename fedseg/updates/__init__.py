"""What happens to an update on its way: attack, compression, clipping; sum; noise.

Each client's update passes the attack, the compression and the clipping of differential privacy in
this order. The server sums the updates, by their means or by a robust rule, and adds noise.
"""

from fedseg.updates.postprocessor import Postprocessor
