// Imported into the process of every test file. The runner's own time-out ends a test but waits forever for a process that
// a forgotten timer or socket keeps alive, and then nothing says which file it is.
import { writeSync } from 'node:fs'
import { relative } from 'node:path'
import { isMainThread } from 'node:worker_threads'
import { loadScaledTimeout } from './load_scaled_timeout.ts'

const onQuietMachineMs = 600_000

/** The limit follows the load of the machine, which is another one by the time that it is reached. */
function endWhenTooLong(): void {
  const limitMs = loadScaledTimeout(onQuietMachineMs)
  const left = limitMs - process.uptime() * 1_000
  if (left > 0) return void setTimeout(endWhenTooLong, left).unref()
  const file = relative(process.cwd(), process.argv[1] ?? '')
  writeSync(2, `${file} did not end within ${limitMs / 1000} s; still open: ${process.getActiveResourcesInfo()}\n`)
  process.exit(1)
}

if (process.env.NODE_TEST_CONTEXT && isMainThread) setTimeout(endWhenTooLong, onQuietMachineMs).unref()
