// Preloaded into `gatehouse serve` and agents. SIGUSR2 collects garbage, so that what memory is left is in use.
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

setFlagsFromString('--expose-gc')
process.on('SIGUSR2', runInNewContext('gc'))
