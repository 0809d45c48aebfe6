// Runs test files in the given order: `node --test` sorts them by name, and its last file may be a long one.
//   node test/harness/run_files.ts [--times] [flags of node for each file] <files>
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { availableParallelism, loadavg } from 'node:os'
import { run } from 'node:test'
import { spec } from 'node:test/reporters'

const given = process.argv.slice(2)
const withTimes = given.includes('--times')
const isFlag = (argument: string) => argument.startsWith('--')
const files = given.filter((argument) => !isFlag(argument))
const isShared = files.some((file) => readFileSync(file, 'utf8').includes('sharedControlPlane('))
const stopShared = isShared ? await (await import('./shared_control_plane.ts')).startSharedControlPlane() : undefined
const events = run({
  files,
  execArgv: [
    ...given.filter((argument) => isFlag(argument) && argument !== '--times'),
    ...['file_limit.ts', ...(withTimes ? ['times.ts'] : [])].flatMap((file) => [
      '--import',
      new URL(file, import.meta.url).href,
    ]),
  ],
  // A file spends much of its time waiting, for processes to start and for changes to arrive.
  concurrency: 3 * availableParallelism(),
  // Limit of one test. `file_limit.ts` has the one of a file, which follows the load of the machine. This one cannot, so it
  // must be enough for a busy one.
  timeout: 900_000,
})
events.on('test:summary', ({ file, success }) => {
  if (file === undefined && !success) process.exitCode = 1
})
const report = events.compose(spec)
report.pipe(process.stdout, { end: false })
await once(report, 'end')
for (const defect of (await stopShared?.()) ?? []) {
  console.error(`the shared control plane logged a defect: ${JSON.stringify(defect)}`)
  process.exitCode = 1
}
if (withTimes) {
  const { timesOfFiles } = await import('./times.ts')
  console.log(
    `${timesOfFiles()}\nload average ${loadavg()
      .map((load) => load.toFixed(1))
      .join(' ')}`,
  )
}
