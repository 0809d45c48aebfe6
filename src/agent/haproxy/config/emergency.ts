import { mapFile, type ProxySettings } from '../settings.ts'
import { answers } from './answers.ts'
import { among, sourceStage } from './client_address.ts'

/** The closest range, if there are several. */
const isRefused = (settings: ProxySettings): string => `{ src,map_ip(${mapFile(settings, 'emergency')}) -m found }`

/** Before anything is negotiated. A trusted proxy is not the client: its requests name that. */
export const refuseEmergencyConnections = (settings: ProxySettings): string => {
  const { trustedProxies = [] } = settings
  const unlessProxy = trustedProxies.length > 0 ? ` !${among(trustedProxies)}` : ''
  return `\n  tcp-request ${sourceStage(settings)} reject if ${isRefused(settings)}${unlessProxy}`
}

/** Requests of clients that a proxy names, and those on connections that were open before. */
export const refuseEmergencyRequests = (settings: ProxySettings): string =>
  `\n  http-request return ${answers.emergency} if ${isRefused(settings)}`
