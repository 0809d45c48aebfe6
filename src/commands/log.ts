import { type Logger, pino } from 'pino'

/** One JSON object a line on standard output, without process id and host name: whoever collects it adds those. */
export const createLog = (level: string): Logger =>
  pino({
    level,
    base: null,
    timestamp: pino.stdTimeFunctions.isoTime,
    formatters: { level: (label) => ({ level: label }) },
  })

export async function untilToldToEnd(...more: NodeJS.Signals[]): Promise<string> {
  return new Promise((resolve) => {
    for (const signal of ['SIGTERM', 'SIGINT', ...more]) process.once(signal, () => resolve(signal))
  })
}
