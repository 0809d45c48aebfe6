import { type RouteModuleName, routeModuleNames } from '../../../distribution/route_modules.ts'
import { idLength } from '../../../kernel/ids.ts'

/** The record cannot be turned into entries. The previous one stays in force, and the refusal is reported. */
export class UnusableRecord extends Error {}

/** Values with parts between `|`. We write and read them by name, and HAProxy's rules take them by position. */
export function delimited<const Name extends string>(...names: readonly Name[]) {
  return {
    /** Parts that may be missing stand at the end. */
    format: (parts: Partial<Record<Name, string | number>>): string =>
      names.flatMap((name) => parts[name] ?? []).join('|'),
    parse(value: string): Partial<Record<Name, string>> {
      const parts = value.split('|')
      return Object.fromEntries(names.map((name, index) => [name, parts[index]])) as Partial<Record<Name, string>>
    },
    /** HAProxy's converter for one part. */
    field: (name: Name): string => `field(${names.indexOf(name) + 1},|)`,
  }
}

/** A backend with one address. With several addresses or a check, it becomes servers of HAProxy's own (native/). */
export const backendValue = delimited('protocol', 'address', 'port', 'host', 'proxy', 'check')
/** In milliseconds, as HAProxy takes them. */
export const timeoutsValue = delimited('connect', 'response', 'idle', 'tunnel')

/** What stands where a route changes headers; see header_lists.ts. */
export const withHeaders = 'h'
/** What stands in the part of a module of the route; its settings are in a map of the same name. */
export const withModule = 'm'

/**
 * The parts of the value of a TCP edge or a route, in order, with their lengths: all but the last are fixed, so that HAProxy
 * cuts them out without searching.
 */
const targetParts = {
  target: { edgtcp: idLength('edgtcp'), edghtsrt: idLength('edghtsrt') },
  account: idLength('ac'),
  backend: idLength('bkdst'),
  slashes: 1,
  websocket: 1,
  depth: 4,
  variants: 1,
  ...(Object.fromEntries(routeModuleNames.map((name) => [name, withModule.length])) as Record<RouteModuleName, number>),
  response: 1,
  timeouts: 1,
  headers: 1,
  policies: undefined,
}
export type TargetPart = keyof typeof targetParts
export type TargetKind = 'edgtcp' | 'edghtsrt'
type FixedPart = Exclude<TargetPart, 'target' | 'policies'>

export const targetPartNames = Object.keys(targetParts) as TargetPart[]

/** What is left out has the length of its part, in dashes. */
export const targetValue = (
  parts: { target: string; account: string; policies: string } & Partial<Record<FixedPart, string>>,
): string => targetPartNames.map((name) => parts[name] ?? '-'.repeat(targetParts[name as FixedPart])).join('|')

/** `length` is undefined for the last part, which goes to the end. */
export function placeOf(part: TargetPart, kind: TargetKind): { from: number; length: number | undefined } {
  const lengthOf = (name: TargetPart) => (name === 'target' ? targetParts.target[kind] : targetParts[name])
  const before = targetPartNames.slice(0, targetPartNames.indexOf(part))
  return { from: before.reduce((from, name) => from + (lengthOf(name) ?? 0) + 1, 0), length: lengthOf(part) }
}

/** Where modules begin: from here on a route has nothing but dashes without them and timeouts of its own, and `open` without policies. */
export const firstModule = routeModuleNames[0] as RouteModuleName
export const noSettings = routeModuleNames.map(() => '-').join('|')
/** Before the policies. */
export const onlyPolicies = `${noSettings}|-|-|-|`
export const noModules = `${onlyPolicies}open`
export const onlyResponseHeaders = `${noSettings}|${withHeaders}|-|-|open`
/** From `rewrite` to `headers`: nothing that is done to a request on its way to its upstream. */
export const unchanged = '-|-|-|-'

/** How long a depth may be written; see `depth` in entries.ts. */
export const depthDigits = targetParts.depth

export function readPart(value: string, part: 'account' | 'backend', kind: TargetKind): string {
  const { from, length = 0 } = placeOf(part, kind)
  return value.slice(from, from + length)
}
