// `npm test -- --times` imports this into the process of every test file: it notes how long the file took, and how much
// processor time it and the processes that it started and waited for used.
import { appendFileSync, readFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { isMainThread } from 'node:worker_threads'
import { testRun } from './test_run.ts'

type FileTime = { file: string; seconds: number; own: number; children: number }
const place = join(testRun.folder, 'times')

/** In seconds. Linux counts those of other processes when they have ended; other systems do not. */
function processorTimeOfChildren(): number {
  try {
    const stat = readFileSync('/proc/self/stat', 'latin1')
    // After the name, which may contain spaces: the 14th and 15th value, in hundredths of a second.
    const values = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    return (Number(values[13]) + Number(values[14])) / 100
  } catch {
    return 0
  }
}

if (process.env.NODE_TEST_CONTEXT && isMainThread)
  process.once('exit', () => {
    const { user, system } = process.cpuUsage()
    const time: FileTime = {
      file: relative(process.cwd(), process.argv[1] ?? ''),
      seconds: process.uptime(),
      own: (user + system) / 1e6,
      children: processorTimeOfChildren(),
    }
    appendFileSync(place, `${JSON.stringify(time)}\n`)
  })

/** As a table, slowest first. */
export function timesOfFiles(): string {
  const times: FileTime[] = readFileSync(place, 'utf8')
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line))
  const row = (seconds: unknown, own: unknown, children: unknown, file: string) =>
    `${[seconds, own, children].map((value) => String(value).padStart(10)).join('')}  ${file}`
  const sum = (field: 'seconds' | 'own' | 'children') =>
    times.reduce((total, time) => total + time[field], 0).toFixed(0)
  return [
    row('seconds', 'own CPU', 'children', 'file'),
    ...times
      .sort((a, b) => b.seconds - a.seconds)
      .map(({ seconds, own, children, file }) => row(seconds.toFixed(1), own.toFixed(1), children.toFixed(1), file)),
    row(sum('seconds'), sum('own'), sum('children'), `${times.length} files`),
  ].join('\n')
}
