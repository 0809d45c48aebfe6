import { setTimeout } from 'node:timers/promises'
import { eventsOf } from '../../kernel/server_sent_events.ts'
import { type Call, type Connection, openStream } from '../call.ts'
import { Failure } from '../exits.ts'
import { write } from '../output/output.ts'
import { cell } from '../output/table.ts'
import { log, styled } from '../output/terminal.ts'

type Json = Record<string, unknown>

const reconnectMs = 1_000

/** Prints the requests of a stream live, forever. Reconnects when the service goes away or restarts. */
export async function follow(connection: Connection, request: Call, asJson: boolean): Promise<never> {
  for (let wasOpen = false; ; ) {
    try {
      const response = await openStream(connection, request)
      if (wasOpen) log('connected again')
      wasOpen = true
      for await (const { event, data } of eventsOf(response)) show(event, data, asJson)
      log('the stream ended; connecting again')
    } catch (error) {
      // An error on the first connection is permanent, and so is a key that is no longer valid.
      if (!wasOpen || (error instanceof Failure && error.exit !== 'unreachable')) throw error
    }
    await setTimeout(reconnectMs)
  }
}

function show(event: string, data: Json, asJson: boolean): void {
  if (event === 'request') write(asJson ? JSON.stringify(data) : lineOf(data))
  else if (event === 'dropped') log(`${data.count} more requests are not shown: they came too fast`)
  else if (event === 'end' && data.reason === 'unauthorized')
    throw new Failure('notAllowed', 'The stream ended: this key or address may no longer read it.', [])
}

const styles = { allowed: 'green', warned: 'yellow', refused: 'red', limited: 'magenta', failed: 'red' } as const

/** One request per line: time, outcome, request, source, and what decided. */
export function lineOf(request: Json): string {
  const { outcome, reason, host, path, method, edge, status_code } = request
  const isKnown = typeof outcome === 'string' && outcome in styles
  const style = isKnown ? styles[outcome as keyof typeof styles] : 'bold'
  const what = method === null ? `tcp ${cell(edge)}` : `${cell(method)} ${cell(host)}${path === null ? '' : cell(path)}`
  const decidedBy = request.ip_policy_rule ?? request.ip_policy ?? request.ip_restriction
  return [
    cell(request.created_at).slice(11, 23),
    styled(style, cell(outcome).padEnd(7)),
    cell(status_code).padEnd(3),
    cell(request.source_ip),
    what,
    `${cell(request.duration_ms)} ms`,
    ...(reason === null ? [] : [cell(reason)]),
    ...(decidedBy ? [cell(decidedBy)] : []),
    styled('dim', `${cell(request.node)} ${cell(request.id)}`),
  ].join('  ')
}
