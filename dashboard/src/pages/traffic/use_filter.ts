import { useMemo } from 'react'
import { useNavigate, useSearchParams } from 'react-router'
import { parseCidr } from '../../../../src/kernel/ip/cidr.ts'
import { useSetUrl } from '../../ui/use_url_state.ts'
import { requestIdIn } from './log.ts'
import type { Filter } from './use_traffic.ts'
import { verdicts } from './words.ts'

type Name = 'show' | 'edge' | 'from' | 'status' | 'since' | 'until'
const statuses = ['1xx', '2xx', '3xx', '4xx', '5xx'] as const
const edgeId = /^edg(hts|tcp)_[0-9a-z]{26}$/

export type UrlFilter = {
  asked: Filter
  isFiltered: boolean
  value: (name: Name) => string
  set: (values: Partial<Record<Name, string>>) => void
  /** Fault of the typed address. */
  fault: string | undefined
}

/** The filter in the page's URL. Ignores unknown parameters. */
export function useFilter(): UrlFilter {
  const [parameters] = useSearchParams()
  const setUrl = useSetUrl()
  const navigate = useNavigate()
  const asked = useMemo((): Filter => {
    const [show, edge, from, status] = ['show', 'edge', 'from', 'status'].map((name) => parameters.get(name) ?? '')
    const [since, until] = ['since', 'until'].map((name) => momentIn(parameters.get(name)))
    const status_class = statuses.find((each) => each === status)
    return {
      ...(show && Object.hasOwn(verdicts, show) && { outcome: show as keyof typeof verdicts }),
      ...(edge && edgeId.test(edge) && { edge_id: edge }),
      ...(from && parseCidr(from).cidr && { source_ip: from }),
      ...(status_class && { status_class }),
      ...(since && { since }),
      ...(until && { until }),
    }
  }, [parameters])
  const from = parameters.get('from') ?? ''
  return {
    asked,
    isFiltered: Object.keys(asked).length > 0,
    value: (name) => parameters.get(name) ?? '',
    set(values) {
      const id = requestIdIn(values.from ?? '')
      if (id) return navigate(`/traffic/${id}`)
      setUrl(Object.fromEntries(Object.entries(values).map(([name, value]) => [name, value || undefined])))
    },
    fault:
      from && !asked.source_ip ? 'Enter a whole address, a range such as 203.0.113.0/24, or a request ID.' : undefined,
  }
}

const momentIn = (text: string | null): string | undefined => {
  const moment = Date.parse(text ?? '')
  return Number.isNaN(moment) ? undefined : new Date(moment).toISOString()
}
