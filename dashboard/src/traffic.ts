import type { Shapes } from './api/client.ts'

export type TrafficType = Shapes['IpRestriction']['type']

/** The four traffic types of restrictions, as this dashboard names them. */
export const traffic: Record<TrafficType, { title: string; what: string }> = {
  api: { title: 'API', what: 'this API' },
  dashboard: { title: 'Dashboard', what: 'this dashboard' },
  agent: { title: 'Agents', what: 'services whose agents call /ip_checks' },
  endpoints: { title: 'Endpoints', what: 'your edges' },
}
export const trafficTypes = Object.keys(traffic) as TrafficType[]

type Module = Pick<Shapes['IpRestrictionModule'], 'enabled' | 'mode'> | null | undefined
/** Whether an edge or a route refuses addresses by itself. */
export const refuses = (module: Module): boolean => module?.enabled === true && module.mode === 'enforce'
