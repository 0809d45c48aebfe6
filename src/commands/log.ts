import { type Logger, pino } from 'pino'

/** One JSON object per line on standard output, without process id and host name, which log collectors add. */
export const createLog = (level: string): Logger =>
  pino(
    {
      level,
      base: null,
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
    },
    standardOutput(),
  )

/** How long a line may wait for others. */
const gatherMs = 10
/** Bytes that may wait for a reader that is slow or has stopped. */
const maxWaiting = 4 * 1024 * 1024

let lost = 0
/** Lines that standard output did not take. */
export const lostLogLines = (): number => lost

/**
 * The lines of a few milliseconds go out in one write: a write for each was a tenth of what a request costs. Only a process
 * that is killed meanwhile loses them; one that ends or crashes writes them first. Nothing waits for the reader: a log
 * collector that hangs must not take the API along.
 */
function standardOutput() {
  let lines: string[] = []
  /** How many of the lost ones no line has told yet. */
  let untold = 0
  const writeAll = () => {
    const written = lines
    lines = []
    if (written.length === 0 && untold === 0) return
    const told = untold
    const lose = () => {
      lost += written.length
      untold += written.length + told
    }
    untold = 0
    if (process.stdout.writableLength > maxWaiting) lose()
    else process.stdout.write((told ? lossNote(told) : '') + written.join(''), (err) => err && lose())
  }
  // Each failed write has counted its lines.
  process.stdout.on('error', () => {})
  process.stdout.on('drain', writeAll)
  process.on('exit', writeAll)
  return {
    write(line: string) {
      if (lines.length === 0) setTimeout(writeAll, gatherMs)
      lines.push(line)
    },
  }
}

const lossNote = (lines: number) =>
  `${JSON.stringify({ level: 'warn', time: new Date().toISOString(), lost: lines, msg: 'lines of this log were lost: they were not read in time' })}\n`

/** Further signals are ignored: aborting half-way could orphan HAProxy. */
export async function waitForShutdown(...more: NodeJS.Signals[]): Promise<string> {
  return new Promise((resolve) => {
    for (const signal of ['SIGTERM', 'SIGINT', ...more]) process.on(signal, () => resolve(signal))
  })
}

/** A terminal and a supervisor may both send a signal. Only one that comes well after the first asks to hurry. */
const sameOrderMs = 1_000

/** Aborted by the next signal to terminate. */
export function nextSignal(): AbortSignal {
  const told = new AbortController()
  const since = Date.now()
  for (const signal of ['SIGTERM', 'SIGINT']) process.on(signal, () => Date.now() - since > sameOrderMs && told.abort())
  return told.signal
}
