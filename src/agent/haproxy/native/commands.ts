import type { Definition, Server } from './definition.ts'

const addressOf = ({ address, port }: Server): string => `${address.includes(':') ? `[${address}]` : address}:${port}`
/** The server was down before, so it gets no request until a check passes. */
const initialState = (isDown: boolean): string => (isDown ? ' init-state down' : '')

export type IsDown = (server: Server) => boolean

/**
 * All commands that create the backend, in order, except `publication`: without it no request reaches the backend.
 * HAProxy puts each new server before the existing ones, and uses the first of the backup servers.
 */
export function* creation({ name, section, servers }: Definition, isDown: IsDown): Generator<string> {
  yield `add backend ${name} from ${section}`
  for (const server of servers.toReversed()) {
    const path = `${name}/${server.name}`
    yield `add server ${path} ${addressOf(server)} ${server.options}${initialState(isDown(server))}`
    yield `enable health ${path};enable server ${path}`
  }
}

export const publication = ({ name }: Definition): string => `publish backend ${name}`

/** Reverts `unpublish` of runtime.ts. */
export function* revival({ name, servers }: Definition): Generator<string> {
  for (const server of servers) yield `enable health ${name}/${server.name}`
}

/** The same backend in the configuration, for the next reload. */
export const configOf = ({ name, section, servers }: Definition, isDown: IsDown): string =>
  [
    `backend ${name} from ${section}`,
    ...servers.map(
      (server) => `  server ${server.name} ${addressOf(server)} ${server.options}${initialState(isDown(server))}`,
    ),
    '',
  ].join('\n')

const expected = /^(?:New (?:backend|server) registered\.|Backend published\.|)$/

/** HAProxy's error, if it rejected a creation. */
export const creationFault = (answer: string): string | undefined =>
  answer
    .split('\n')
    .map((line) => line.trim())
    .find((line) => !expected.test(line))
