import type { Shapes } from './api/client.ts'

export type TrafficType = Shapes['IpRestriction']['type']

/** The four kinds of traffic that a restriction may be for, in the words of this dashboard. */
export const traffic: Record<TrafficType, { title: string; what: string }> = {
  api: { title: 'API', what: 'calls to this API' },
  dashboard: { title: 'Dashboard', what: 'this dashboard' },
  agent: { title: 'Agents', what: 'agents that ask /ip_checks' },
  endpoints: { title: 'Endpoints', what: 'all traffic to your edges' },
}
export const trafficTypes = Object.keys(traffic) as TrafficType[]
