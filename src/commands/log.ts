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

/**
 * The lines of a few milliseconds go out in one write: a write for each was a tenth of what a request costs. Only a process
 * that is killed meanwhile loses them; one that ends or crashes writes them first.
 */
function standardOutput() {
  const output = pino.destination({ fd: 1, sync: true })
  let lines = ''
  const writeAll = () => {
    const written = lines
    lines = ''
    if (written) output.write(written)
  }
  process.on('exit', writeAll)
  return {
    write(line: string) {
      if (!lines) setTimeout(writeAll, gatherMs)
      lines += line
    },
  }
}

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
