import { setTimeout } from 'node:timers/promises'
import { Failure } from '../exits.ts'
import { write } from '../output/output.ts'
import { log, styled } from '../output/terminal.ts'

const intervalMs = 2_000

/**
 * Shows something repeatedly, forever: a terminal is overwritten, and other outputs get it only when it has changed.
 * Tolerates a service that is temporarily unreachable.
 */
export async function watch(title: string, render: () => Promise<string>): Promise<never> {
  let last: string | undefined
  for (;;) {
    const text = await rendered(render, last !== undefined)
    if (text !== undefined && process.stdout.isTTY) {
      const now = new Date().toTimeString().slice(0, 8)
      process.stdout.write(`\x1b[H\x1b[2J${styled('dim', `${title}  ${now}`)}\n\n${text}\n`)
    } else if (text !== undefined && text !== last) write(text)
    last = text ?? last
    await setTimeout(intervalMs)
  }
}

async function rendered(render: () => Promise<string>, hasWorked: boolean): Promise<string | undefined> {
  try {
    return await render()
  } catch (error) {
    if (!hasWorked || !(error instanceof Failure) || error.exit !== 'unreachable') throw error
    log(error.message)
    return undefined
  }
}
