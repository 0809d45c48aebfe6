// `npm test -- --times` imports this into the process of every test file: it notes how long the file took, and how much
// processor time it and the processes that it started used.
import { appendFileSync, readFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { isMainThread } from 'node:worker_threads'
import { enterGroup } from './processor_time.ts'
import { testRun } from './test_run.ts'

type FileTime = { file: string; seconds: number; own: number; all: number }
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

if (process.env.NODE_TEST_CONTEXT && isMainThread) {
  const processorTime = enterGroup(`file-${process.pid}`)
  process.once('exit', () => {
    const { user, system } = process.cpuUsage()
    const own = (user + system) / 1e6
    const time: FileTime = {
      file: relative(process.cwd(), process.argv[1] ?? ''),
      seconds: process.uptime(),
      own,
      all: processorTime?.() ?? own + processorTimeOfChildren(),
    }
    appendFileSync(place, `${JSON.stringify(time)}\n`)
  })
}

/** As tables of files and of folders, the most processor time first. */
export function timesOfFiles(): string {
  const times: FileTime[] = readFileSync(place, 'utf8')
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line))
  const row = (values: unknown[], name: string) =>
    `${values.map((value) => String(value).padStart(10)).join('')}  ${name}`
  const sums = (some: readonly FileTime[]) =>
    (['all', 'own', 'seconds'] as const).map((field) => some.reduce((total, time) => total + time[field], 0).toFixed(1))
  const most = ([, a]: [string, FileTime[]], [, b]: [string, FileTime[]]) => Number(sums(b)[0]) - Number(sums(a)[0])
  const table = (groups: Record<string, FileTime[]>) =>
    Object.entries(groups)
      .sort(most)
      .map(([name, some]) => row(sums(some), name))
  return [
    row(['CPU', 'own CPU', 'seconds'], 'file'),
    ...table(Object.groupBy(times, ({ file }) => file) as Record<string, FileTime[]>),
    row(['CPU', 'own CPU', 'seconds'], 'folder'),
    ...table(Object.groupBy(times, ({ file }) => folderOf(file)) as Record<string, FileTime[]>),
    row(sums(times), `${times.length} files`),
  ].join('\n')
}

const folderOf = (file: string) => (file.startsWith('src/') ? 'src' : dirname(file))
