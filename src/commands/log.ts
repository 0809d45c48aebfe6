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

/** Maximum time that a line waits for others. */
const gatherMs = 10
/** Maximum bytes that wait for a slow or stopped reader. */
const maxWaiting = 4 * 1024 * 1024

let lost = 0
/** Lines that were dropped because standard output did not accept them. */
export const lostLogLines = (): number => lost

/**
 * Writes the lines of a few milliseconds together: one write per line took a tenth of the cost of a request. Only a
 * killed process loses the waiting lines; one that ends or crashes writes them first. Nothing waits for the reader,
 * because a hanging log collector must not block the API.
 */
function standardOutput() {
  let lines: string[] = []
  /** Lost lines that no line has reported yet. */
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
  // Each failed write has already counted its lines.
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

/** A terminal and a supervisor may both send a signal. Only one that arrives well after the first asks to hurry. */
const sameOrderMs = 1_000

/** Aborts on the next termination signal. */
export function nextSignal(): AbortSignal {
  const told = new AbortController()
  const since = Date.now()
  for (const signal of ['SIGTERM', 'SIGINT']) process.on(signal, () => Date.now() - since > sameOrderMs && told.abort())
  return told.signal
}
