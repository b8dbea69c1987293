import Type from 'typebox';

const Version = Type.String({ pattern: '^[1-9][0-9]{0,17}$' });
const Percent = Type.Number({ minimum: 0, maximum: 100, description: 'in steps of 0.001' });
const Count = Type.Integer({ minimum: 0 });
const Microseconds = Type.Union([Type.Integer({ minimum: 0 }), Type.Null()]);

export const TrafficRequestBody = Type.Object(
  {
    shares: Type.Optional(
      Type.Record(Version, Percent, { description: 'percents by version; together 100, or none at all' }),
    ),
    sticky: Type.Optional(
      Type.String({ maxLength: 256, description: 'the request parameter whose value decides; "" for none' }),
    ),
    shadow: Type.Optional(
      Type.Union([
        Type.Object(
          {
            version: Version,
            percent: Type.Optional(Percent),
            tolerance: Type.Optional(Type.Number({ minimum: 0 })),
          },
          { additionalProperties: false },
        ),
        Type.Null(),
      ]),
    ),
    fallback: Type.Optional(Type.Boolean({ description: 'whether a new version that fails more loses its share' })),
  },
  { additionalProperties: false },
);

export const TrafficBody = Type.Object({
  model: Type.String(),
  source: Type.Enum(['command', 'config', 'policy']),
  versions: Type.Array(
    Type.Object({
      version: Type.String(),
      state: Type.String(),
      share: Type.Union([Percent, Type.Null()]),
      effective: Type.Union([Percent, Type.Null()]),
      requests: Count,
    }),
  ),
  sticky: Type.String(),
  shadow: Type.Union([
    Type.Object({
      version: Type.String(),
      percent: Percent,
      tolerance: Type.Number({ minimum: 0 }),
      same: Count,
      different: Count,
      errors: Count,
      skipped: Count,
      shadow_us: Microseconds,
      served_us: Microseconds,
      largest_difference: Type.Union([Type.Number({ minimum: 0 }), Type.Null()]),
    }),
    Type.Null(),
  ]),
  fallback: Type.Boolean(),
  fallen: Type.Array(Type.Object({ version: Type.String(), reason: Type.String(), at: Type.String() })),
});
