import { cutTo } from './terminal.ts'

export type Progress = { step: (what: string) => void; end: () => void }

/** Updates a single line on a terminal, and prints nothing elsewhere. Without a total it counts. */
export function startProgress(title: string, total?: number): Progress {
  const stream = process.stderr
  if (!stream.isTTY) return { step() {}, end() {} }
  let done = 0
  let drawnAt = 0
  const draw = (what: string) => {
    const columns = stream.columns || 80
    const share = total ? done / total : 0
    const bar = total ? `[${'#'.repeat(Math.round(share * 20)).padEnd(20, '.')}] ${done}/${total}` : String(done)
    stream.write(`\r\x1b[K${cutTo(`${title} ${bar} ${what}`, columns - 1)}`)
  }
  return {
    step(what) {
      done++
      // Updating faster than the eye can follow only costs time.
      if (Date.now() - drawnAt < 50 && done !== total) return
      drawnAt = Date.now()
      draw(what)
    },
    end() {
      if (drawnAt) stream.write('\r\x1b[K')
    },
  }
}

/** Shows activity once something takes longer than a moment. */
export async function whileWaiting<T>(title: string, work: Promise<T>): Promise<T> {
  const stream = process.stderr
  if (!stream.isTTY) return work
  const began = Date.now()
  const seconds = () => Math.round((Date.now() - began) / 1000)
  const timer = setInterval(
    () => stream.write(`\r\x1b[K${cutTo(`${title} … ${seconds()} s`, (stream.columns || 80) - 1)}`),
    1_000,
  )
  try {
    return await work
  } finally {
    clearInterval(timer)
    if (seconds() >= 1) stream.write('\r\x1b[K')
  }
}
