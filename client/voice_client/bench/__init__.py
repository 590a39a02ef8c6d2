"""`voice bench`: how many callers an endpoint serves, how late, how wrong, at what price.

| module | what it holds |
|---|---|
| `plan` | what is asked for, and every limit with its reason |
| `material` | recordings with their texts, and texts to be spoken |
| `callers` | one caller: hears, speaks, or does both in turn |
| `load` | callers of one step: ramp, warm-up, measured window, closed or open loop |
| `own_load` | what the measuring process itself used, and how late its event loop was |
| `worker`, `fleet` | processes that measure, and the one that starts them and merges what they say |
| `endpoint_facts`, `local_cloud` | instances and prices; a local cloud for one run |
| `figures` | percentiles, word error rates, real time, verdicts |
| `report`, `page`, `plots`, `table` | JSON with a schema, one HTML file, a table for the terminal |
| `comparison` | whether two reports differ by more than noise |

A process that measures does nothing else: it plays callers, and says what each utterance cost, line by line.
"""
