import { once } from 'node:events'
import { createWriteStream } from 'node:fs'
import { call } from '../call.ts'
import { exits, Failure, usageFailure } from '../exits.ts'
import { readFlags } from '../flags.ts'
import { operations } from '../operations.ts'
import { write } from '../output/output.ts'
import { startProgress } from '../output/progress.ts'
import { log } from '../output/terminal.ts'
import { connect } from '../perform.ts'
import type { ClientConfig } from '../profiles.ts'

export const exportHelp = `Export audit events as JSON Lines, oldest first: one event per line.

  gatehouse audit-events export --since 2026-11-01 [--until 2026-12-01]
                                [--output FILE] [--after-id ID]

Dates mean midnight UTC; times are RFC 3339. The filters of 'gatehouse audit-events list' apply
too. The export ends at what every transaction has committed by now, so no event can appear later
among those exported. To continue later, or after an interruption, pass the id of the last event
as --after-id: FILE is then appended to.`

type Event = { id: string }

/** `gatehouse audit-events export`: page by page, so that memory use does not grow with the number of events. */
export async function exportCommand(config: ClientConfig, args: string[]): Promise<number> {
  const list = operations.find(({ id }) => id === 'audit_events.list')
  const flags = (list?.flags ?? []).filter(({ name }) => !['limit', 'order', 'before-id'].includes(name))
  const typed = readFlags(args, flags, ['output', 'profile', 'timeout', 'verbose', 'help'])
  if (typed.command.help) {
    write(exportHelp)
    return exits.ok.code
  }
  if (typed.positionals.length) throw usageFailure(`unexpected argument '${typed.positionals[0]}'`)
  const filters = Object.fromEntries(
    typed.given.map(({ flag, value }) => [flag.path[0], /^(since|until)$/.test(flag.name) ? toMoment(value) : value]),
  )
  const connection = connect(config, typed.command)
  const sink = openSink(typed.command.output, filters.after_id !== undefined)
  const progress = startProgress('exported')
  let query: Record<string, unknown> = { ...filters, order: 'committed', limit: 100 }
  let last = filters.after_id as string | undefined
  try {
    for (;;) {
      const { text } = await call(connection, { method: 'GET', path: '/audit_events', query })
      const page = JSON.parse(text) as { audit_events: Event[]; next_page_uri: string | null }
      await sink.write(page.audit_events.map((event) => `${JSON.stringify(event)}\n`).join(''))
      for (const _ of page.audit_events) progress.step('')
      last = page.audit_events.at(-1)?.id ?? last
      if (!page.next_page_uri) break
      query = Object.fromEntries(new URL(page.next_page_uri).searchParams)
    }
  } catch (error) {
    if (last) log(`The export was interrupted. Continue with: --after-id ${last}`)
    throw error
  } finally {
    progress.end()
    await sink.end()
  }
  if (last) log(`Last event: ${last}. Later events: --after-id ${last}`)
  return exits.ok.code
}

/** A date means midnight UTC. */
export const toMoment = (value: unknown): unknown =>
  typeof value === 'string' && /^\d{4}-\d\d-\d\d$/.test(value) ? `${value}T00:00:00Z` : value

/** If the reader is slower than the service, the export waits instead of buffering. */
function openSink(file: string | undefined, isContinued: boolean) {
  if (file === undefined)
    return {
      write: async (text: string) => {
        if (!process.stdout.write(text)) await once(process.stdout, 'drain')
      },
      end: async () => {},
    }
  const stream = createWriteStream(file, { flags: isContinued ? 'a' : 'w' })
  let fault: Error | undefined
  stream.on('error', (error) => {
    fault = error
  })
  return {
    write: (text: string) =>
      new Promise<void>((resolve, reject) => {
        if (fault) return reject(cannotWrite(file, fault))
        stream.write(text, (error) => (error ? reject(cannotWrite(file, error)) : resolve()))
      }),
    end: () => new Promise<void>((resolve) => (fault ? resolve() : stream.end(resolve))),
  }
}

const cannotWrite = (file: string, cause: Error) =>
  new Failure('usage', `${file} cannot be written: ${cause.message}`, [], { cause })
