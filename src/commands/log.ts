import { type Logger, pino } from 'pino'

/** One JSON object a line on standard output, without process id and host name: whoever collects it adds those. */
export const createLog = (level: string): Logger =>
  pino({
    level,
    base: null,
    timestamp: pino.stdTimeFunctions.isoTime,
    formatters: { level: (label) => ({ level: label }) },
  })

/** Told again, it goes on ending: half-way through it would leave something behind, such as HAProxy. */
export async function waitForShutdown(...more: NodeJS.Signals[]): Promise<string> {
  return new Promise((resolve) => {
    for (const signal of ['SIGTERM', 'SIGINT', ...more]) process.on(signal, () => resolve(signal))
  })
}

/** A terminal and a supervisor may both tell a process to end; only a signal well after the first asks for haste. */
const sameOrderMs = 1_000

/** Aborted when the process is told to end once more. */
export function nextSignal(): AbortSignal {
  const told = new AbortController()
  const since = Date.now()
  for (const signal of ['SIGTERM', 'SIGINT']) process.on(signal, () => Date.now() - since > sameOrderMs && told.abort())
  return told.signal
}
