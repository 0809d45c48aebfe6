import { keepPreviousData, useQuery } from '@tanstack/react-query'
import type { ReactNode } from 'react'
import { Link } from 'react-router'
import type { Shapes } from '../../api/client.ts'
import { queries } from '../../api/queries.ts'
import { type TrafficType, traffic, trafficTypes } from '../../traffic.ts'
import { Choice } from '../../ui/choice.tsx'
import { Loaded } from '../../ui/loading.tsx'
import { Section } from '../../ui/section.tsx'
import { useUrlState } from '../../ui/use_url_state.ts'
import { useRange } from '../statistics/use_range.ts'
import { Chart } from './chart.tsx'
import { useMarks } from './use_marks.ts'

type Data = Shapes['IpActivity']
const count = new Intl.NumberFormat('en')

/** Refusals are counted hourly, so shorter ranges show the last day. */
const day = { hours: 24, hoursPerBar: 1, words: 'in the last 24 hours' }
const spans = {
  '15m': day,
  '1': day,
  '24': day,
  '168': { hours: 168, hoursPerBar: 6, words: 'in the last 7 days' },
  '720': { hours: 720, hoursPerBar: 24, words: 'in the last 30 days' },
}

/** Totals, a chart and a table by hour, and the edges concerned. */
export function Activity() {
  const { hours, hoursPerBar, words } = spans[useRange().name]
  const activity = useQuery({ ...queries.activity(hours), placeholderData: keepPreviousData })
  const [wanted, setWanted] = useUrlState<TrafficType | 'all'>('traffic', 'all')
  return (
    <Section
      title="Refusals and warnings"
      note={words}
      action={
        <div className="section-tools">
          <Choice
            label="Traffic"
            labelHidden
            value={wanted}
            onChange={setWanted}
            options={[
              { value: 'all' as const, label: 'All traffic' },
              ...trafficTypes.map((value) => ({ value, label: traffic[value].title })),
            ]}
          />
        </div>
      }
    >
      <Loaded query={activity} lines={6}>
        {(data) => (
          <Shown
            data={data}
            types={wanted === 'all' ? trafficTypes : [wanted]}
            hoursPerBar={hoursPerBar}
            words={words}
          />
        )}
      </Loaded>
    </Section>
  )
}

type ShownProps = { data: Data; types: readonly TrafficType[]; hoursPerBar: number; words: string }

function Shown({ data, types, hoursPerBar, words }: ShownProps) {
  const marks = useMarks()
  const restrictions = useQuery(queries.restrictions()).data ?? []
  const hours = data.hours.map((hour) => ({
    at: hour.hour,
    refused: types.reduce((sum, type) => sum + hour[type].refused, 0),
    warned: types.reduce((sum, type) => sum + hour[type].warned, 0),
  }))
  const refused = hours.reduce((sum, hour) => sum + hour.refused, 0)
  const warned = hours.reduce((sum, hour) => sum + hour.warned, 0)
  const onTrial = restrictions.filter(({ enforced }) => !enforced).length
  const busiest = hours.reduce((most, hour) => Math.max(most, hour.refused), 0)
  return (
    <>
      <div className="frame">
        <dl className="stats">
          <Figure name="Refused" value={count.format(refused)} tone="refused">
            {busiest > 0 ? (
              <Link to="/traffic?show=refused">at most {count.format(busiest)} in an hour</Link>
            ) : (
              'no address was refused'
            )}
          </Figure>
          <Figure name="Warned" value={count.format(warned)} tone="warned">
            <Link to="/restrictions?show=warns">
              {onTrial === 1 ? '1 restriction only warns' : `${onTrial} restrictions only warn`}
            </Link>
          </Figure>
          <Figure name="Edges and routes" value={count.format(data.edges.length)}>
            with refusals or warnings
          </Figure>
        </dl>
        {refused + warned > 0 && (
          <Chart
            hours={hours}
            hoursPerBar={hoursPerBar}
            range={words}
            marks={marks}
            isLinked={types.includes('endpoints')}
          />
        )}
      </div>
      {types.includes('endpoints') && data.edges.length > 0 && <AtEdges edges={data.edges} />}
    </>
  )
}

type FigureProps = { name: string; value: string; tone?: 'refused' | 'warned'; children: ReactNode }

function Figure({ name, value, tone, children }: FigureProps) {
  return (
    <div>
      <dt className="stat-name">
        {tone && <span className={`key ${tone}`} aria-hidden="true" />}
        {name}
      </dt>
      <dd className="stat-figure">{value}</dd>
      <dd className="fine">{children}</dd>
    </div>
  )
}

function AtEdges({ edges }: { edges: Data['edges'] }) {
  const tcp = useQuery(queries.tcpEdges()).data
  const https = useQuery(queries.httpsEdges()).data
  const nameOf = ({ target, edge }: Data['edges'][number]): string => {
    if (!edge) return tcp?.find(({ id }) => id === target.id)?.hostports.join(', ') ?? target.id
    const found = https?.find(({ id }) => id === edge.id)
    const route = found?.routes.find(({ id }) => id === target.id)
    return found && route ? `${found.hostports[0] ?? ''}${route.match}` : target.id
  }
  return (
    <div className="frame">
      <table>
        <thead>
          <tr>
            <th scope="col">By edge and route</th>
            <th scope="col" className="number">
              Refused
            </th>
            <th scope="col" className="number">
              Warned
            </th>
          </tr>
        </thead>
        <tbody>
          {edges.slice(0, 5).map((row) => (
            <tr key={row.target.id}>
              <th scope="row" className="mono breaks">
                <Link className="row-link" to={`/edges/${row.edge?.id ?? row.target.id}`}>
                  {nameOf(row)}
                </Link>
              </th>
              <td className="number">{count.format(row.refused)}</td>
              <td className="number">{count.format(row.warned)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}
