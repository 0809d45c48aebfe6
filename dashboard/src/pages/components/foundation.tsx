import { Section } from '../../ui/section.tsx'

const colors = [
  'ground',
  'surface',
  'sunken',
  'line',
  'text',
  'text-2',
  'accent',
  'accent-soft',
  'allowed-mark',
  'warned-mark',
  'refused-mark',
  'chart',
]

/** Colors and sizes of type, by the names that styles/tokens.css gives them. */
export function Foundation() {
  return (
    <>
      <Section title="Color">
        <div className="frame swatches">
          {colors.map((name) => (
            <p key={name} className="fine">
              <span style={{ background: `var(--${name})` }} />
              {name}
            </p>
          ))}
        </div>
      </Section>
      <Section title="Type">
        <dl className="frame facts type-sizes">
          <dt>Figure 22/28</dt>
          <dd className="stat-figure">12,480</dd>
          <dt>Title 20/28</dt>
          <dd className="type-title">Partner networks</dd>
          <dt>Section 15/22</dt>
          <dd className="type-section">Refused addresses</dd>
          <dt>Body 14/20</dt>
          <dd className="type-body">Only addresses that a policy allows reach the backend.</dd>
          <dt>Table 13/20</dt>
          <dd>No rule matches in Partner networks</dd>
          <dt>Small 12/16</dt>
          <dd className="fine">Last used 4 min ago</dd>
          <dt>Mono 12/20</dt>
          <dd className="mono">2001:db8:40::/44 ipr_01m7f4phe1e00azccrbg7ppm44</dd>
        </dl>
      </Section>
    </>
  )
}
