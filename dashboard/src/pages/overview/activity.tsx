import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { Link } from 'react-router'
import type { Shapes } from '../../api/client.ts'
import { queries } from '../../api/queries.ts'
import { type TrafficType, traffic, trafficTypes } from '../../traffic.ts'
import { Choice } from '../../ui/choice.tsx'
import { Loaded } from '../../ui/loading.tsx'
import { Chart } from './chart.tsx'

type Data = Shapes['IpActivity']

/** The last day by the hour, as a picture and as a table, and where at the edges it happened. */
export function Activity() {
  const activity = useQuery(queries.activity())
  const [wanted, setWanted] = useState<TrafficType | ''>('')
  return (
    <section className="card" aria-labelledby="activity">
      <header>
        <h2 id="activity">Refusals and warnings in the last 24 hours</h2>
        <Choice
          label="Traffic"
          labelHidden
          value={wanted}
          onChange={(value) => setWanted(value as TrafficType | '')}
          options={[
            { value: '', label: 'All traffic' },
            ...trafficTypes.map((value) => ({ value, label: traffic[value].title })),
          ]}
        />
      </header>
      <div className="body">
        <Loaded query={activity} lines={6}>
          {(data) => <Shown data={data} types={wanted ? [wanted] : trafficTypes} />}
        </Loaded>
      </div>
    </section>
  )
}

function Shown({ data, types }: { data: Data; types: readonly TrafficType[] }) {
  const hours = data.hours.map((hour) => ({
    at: hour.hour,
    refused: types.reduce((sum, type) => sum + hour[type].refused, 0),
    warned: types.reduce((sum, type) => sum + hour[type].warned, 0),
  }))
  if (hours.every(({ refused, warned }) => refused + warned === 0))
    return <p className="soft">No refusals or warnings.</p>
  return (
    <>
      <Chart hours={hours} />
      {types.includes('endpoints') && data.edges.length > 0 && <AtEdges edges={data.edges} />}
    </>
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
    <div>
      <h3>By edge and route</h3>
      <table className="fit">
        <thead>
          <tr>
            <th scope="col">Edge or route</th>
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
              <td className="mono">
                <Link to={`/edges/${row.edge?.id ?? row.target.id}`}>{nameOf(row)}</Link>
              </td>
              <td className="number">{row.refused}</td>
              <td className="number">{row.warned}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}
