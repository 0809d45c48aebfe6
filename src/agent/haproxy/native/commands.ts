import type { Definition, Server } from './definition.ts'

const addressOf = ({ address, port }: Server): string => `${address.includes(':') ? `[${address}]` : address}:${port}`
/** Known to be down before: it gets no request until a check has passed. */
const initialState = (isDown: boolean): string => (isDown ? ' init-state down' : '')

export type IsDown = (server: Server) => boolean

/**
 * Everything that makes it, in order, but for `publication`, without which no request reaches it. HAProxy puts each server
 * before those that are there, and of backup servers it uses the first.
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

/** Undoes what `unpublish` in runtime.ts does. */
export function* revival({ name, servers }: Definition): Generator<string> {
  for (const server of servers) yield `enable health ${name}/${server.name}`
}

/** The same in the configuration, for the next reload. */
export const configOf = ({ name, section, servers }: Definition, isDown: IsDown): string =>
  [
    `backend ${name} from ${section}`,
    ...servers.map(
      (server) => `  server ${server.name} ${addressOf(server)} ${server.options}${initialState(isDown(server))}`,
    ),
    '',
  ].join('\n')

const expected = /^(?:New (?:backend|server) registered\.|Backend published\.|)$/

/** What HAProxy answered to a creation, if it did not take it. */
export const creationFault = (answer: string): string | undefined =>
  answer
    .split('\n')
    .map((line) => line.trim())
    .find((line) => !expected.test(line))
