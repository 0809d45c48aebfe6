import { type RouteModuleName, routeModuleNames } from '../../../distribution/route_modules.ts'
import {
  firstModule,
  noModules,
  noSettings,
  onlyPolicies,
  onlyResponseHeaders,
  placeOf,
  type TargetPart,
  unchanged,
  withModule,
} from '../maps/codec.ts'
import { mapFile, type ProxySettings } from '../settings.ts'
import { answers } from './answers.ts'
import { fromPart, part } from './rules.ts'

/** A route without any module and policy. */
export const hasNoModule = `${fromPart('txn.entry', firstModule)} -m str -- ${noModules}`

/** One whose only module changes responses. */
export const hasOnlyResponseHeaders = `${fromPart('txn.entry', firstModule)} -m str -- ${onlyResponseHeaders}`

const fromPlace = (name: TargetPart, text: string) =>
  `var(txn.entry),bytes(${placeOf(name, 'edghtsrt').from},${text.length}) -m str -- ${text}`

/** One that has policies at most. */
export const hasOnlyPolicies = fromPlace(firstModule, onlyPolicies)

/** One without a rewrite, timeouts, and request headers. `response_headers` stands between them in the value. */
export const changesNoRequest = fromPlace('rewrite', unchanged)

/** Stands for settings that are not in their map. */
const noModuleSettings = '!'

/** What both paths ask. `no_settings`: headers and policies are all that the route may have. */
export const moduleAcls = `
  acl no_settings ${fromPlace(firstModule, noSettings)}${routeModuleNames
    .map(
      (name) => `
  acl has_${name} ${part('txn.entry', name)} -m str ${withModule}
  acl knows_${name} var(txn.${name}) -m found
  acl lacks_${name} var(txn.${name}) -m str ${noModuleSettings}`,
    )
    .join('')}`

/** Puts the settings of a module into a variable of its name. `of`: which requests. Most have no module, so that is asked first. */
export const findModule = (settings: ProxySettings, name: RouteModuleName, of: string): string => `
  http-request set-var(txn.${name}) ${part('txn.entry', 'target')},map_str(${mapFile(settings, name)},${noModuleSettings}) if has_${name} ${of}`
/** Where no other rule would refuse settings that are missing. */
export const requireModule = (name: RouteModuleName): string => `
  http-request return ${answers.internal} if lacks_${name}`

/** Stands in the decision about a request that a module would have refused, and only warns of. */
export const moduleWarning = (name: RouteModuleName): string => `?${name}`
export const warnOf = (name: RouteModuleName, conditions: string, rule = 'http-request'): string => `
  ${rule} set-var-fmt(txn.decision) "%[var(txn.decision)] ${moduleWarning(name)}" if ${conditions}`
