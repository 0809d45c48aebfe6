// Imported into the process of every test file. The runner's own time-out ends a test but waits forever for a process that
// a forgotten timer or socket keeps alive, and then nothing says which file it is.
import { writeSync } from 'node:fs'
import { relative } from 'node:path'
import { isMainThread } from 'node:worker_threads'

const limitMs = 600_000

if (process.env.NODE_TEST_CONTEXT && isMainThread)
  setTimeout(() => {
    const file = relative(process.cwd(), process.argv[1] ?? '')
    writeSync(2, `${file} did not end within ${limitMs / 1000} s; still open: ${process.getActiveResourcesInfo()}\n`)
    process.exit(1)
  }, limitMs).unref()
