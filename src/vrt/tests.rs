//! Tests of the whole parser.

use super::*;
use serde_json::{Value, json};

/// As GDAL 3.13 writes it, shortened.
const MOSAIC: &str = r#"<VRTDataset>
  <Group name="/">
<Dimension name="lat" type="HORIZONTAL_Y" direction="NORTH" size="2" indexingVariable="lat" />
<Dimension name="time" type="TEMPORAL" size="2" indexingVariable="time" />
<Attribute name="title"><DataType>String</DataType><Value>a &amp; b</Value></Attribute>
<Array name="time">
  <DataType>Float64</DataType>
  <DimensionRef ref="time" />
  <InlineValues offset="0" count="2">1339 1340.5</InlineValues>
</Array>
<Array name="lat">
  <DataType>Float64</DataType>
  <DimensionRef ref="lat" />
  <RegularlySpacedValues start="-89.875" increment="0.25" />
</Array>
<Array name="sst">
  <DataType>Int16</DataType>
  <DimensionRef ref="time" />
  <DimensionRef ref="lat" />
  <BlockSize>1,2</BlockSize>
  <Unit>Celsius</Unit>
  <NoDataValue>-999</NoDataValue>
  <Offset>0</Offset>
  <Scale>0.0099999997764825821</Scale>
  <Source>
    <SourceFilename relativetoVRT="1">d/1.nc</SourceFilename>
    <SourceArray>/sst</SourceArray>
    <SourceSlab offset="0,0" count="1,2" step="1,1" />
    <DestSlab offset="0,0" />
  </Source>
  <Source>
    <SourceFilename>/x/2.nc</SourceFilename>
    <SourceArray>/sst</SourceArray>
    <SourceSlab offset="0,0" count="1,2" step="1,1" />
    <DestSlab offset="1,0" />
  </Source>
  <Attribute name="valid_max"><DataType>Int16</DataType><Value>4500</Value></Attribute>
</Array>
  </Group>
</VRTDataset>"#;

#[test]
fn a_mosaic() {
    assert!(is_mosaic_vrt(MOSAIC.as_bytes()));
    assert!(is_mosaic_vrt(
        b"\xef\xbb\xbf<?xml version=\"1.0\"?>\n<!-- x -->\n<VRTDataset a=\"b\">\n<Group name=\"/\">"
    ));
    assert!(!is_mosaic_vrt(b"<VRTDataset rasterXSize=\"2\"><VRTRasterBand/>"));
    assert!(!is_mosaic_vrt(b"\x89HDF\r\n"));
    let m = parse("/v/m.vrt", MOSAIC).unwrap();
    assert_eq!(m.sources, ["/v/d/1.nc", "/x/2.nc"]);
    assert_eq!(m.attributes.text("title"), Some("a & b"));
    assert_eq!(m.dimensions[0].direction, "NORTH");
    let sst = m.arrays.iter().find(|a| a.name == "sst").unwrap();
    assert_eq!((sst.dims.as_slice(), sst.block_size.as_deref()), (&[1, 0][..], Some(&[1, 2][..])));
    assert_eq!((sst.unit.as_deref(), sst.nodata.as_deref()), (Some("Celsius"), Some("-999")));
    assert_eq!(sst.scale, Some(f64::from(0.01f32)));
    assert_eq!(sst.attributes.get("valid_max").unwrap().dtype.as_deref(), Some("<i2"));
    match &sst.content {
        Content::Sources(list) => {
            assert_eq!((list[1].dest.as_slice(), list[1].source), (&[1, 0][..], 1));
            assert_eq!(list[0].source_array, "sst");
        }
        other => panic!("{other:?}"),
    }
    assert!(matches!(&m.arrays[0].content, Content::Inline(v) if v == &["1339", "1340.5"]));
    assert!(matches!(m.arrays[1].content, Content::Regular { start, .. } if start == -89.875));
}

#[test]
fn what_can_not_be_a_plan() {
    for (from, to, part) in [
        ("step=\"1,1\"", "step=\"2,1\"", "step"),
        ("<DestSlab offset=\"1,0\" />", "<DestSlab offset=\"2,0\" />", "reach beyond"),
        ("<DestSlab offset=\"1,0\" />", "<DestSlab offset=\"1\" />", "2 whole numbers"),
        ("count=\"1,2\"", "", "count"),
        ("<SourceArray>/sst</SourceArray>", "", "SourceArray"),
        (
            "<SourceArray>/sst</SourceArray>",
            "<SourceArray>/sst</SourceArray><SourceTranspose>1,0</SourceTranspose>",
            "Transpose",
        ),
        ("ref=\"lat\"", "ref=\"nowhere\"", "nowhere"),
        ("1339 1340.5", "1339", "InlineValues"),
        ("count=\"1,2\" step", "count=\"0,2\" step", "count"),
        ("offset=\"0,0\" count=\"1,2\"", "offset=\"18446744073709551615,0\" count=\"1,2\"", "too large"),
        ("<SourceArray>/sst</SourceArray>", "<SourceBand>1</SourceBand>", "SourceBand"),
        (
            "<SourceArray>/sst</SourceArray>",
            "<SourceArray>/sst</SourceArray><SourceView>[::2]</SourceView>",
            "SourceView",
        ),
        ("<SourceFilename>/x/2.nc</SourceFilename>", "", "SourceFilename"),
        ("<BlockSize>1,2</BlockSize>", "<BlockSize>2</BlockSize>", "BlockSize"),
        ("<BlockSize>1,2</BlockSize>", "<DerivedArray/>", "DerivedArray"),
        ("<BlockSize>1,2</BlockSize>", "<ConstantValue>3</ConstantValue>", "mixes"),
        ("<BlockSize>1,2</BlockSize>", "<RegularlySpacedValues start=\"1\" increment=\"1\"/>", "2 dimensions"),
        ("<DataType>Int16</DataType>\n  <DimensionRef", "<DimensionRef", "DataType"),
        ("<DataType>Int16</DataType>", "<DataType>CInt16</DataType>", "CInt16"),
        ("<Value>4500</Value>", "<Value>many</Value>", "valid_max"),
        ("increment=\"0.25\"", "increment=\"inf\"", "increment"),
        ("name=\"lat\" type", "name=\"time\" type", "twice"),
        ("<Array name=\"lat\">", "<Array name=\"time\">", "twice"),
        ("<Array name=\"lat\">", "<Array>", "no name"),
        ("size=\"2\"", "size=\"0\"", "size"),
        ("offset=\"0\" count=\"2\"", "offset=\"1\" count=\"1\"", "2 values"),
        ("offset=\"0\" count=\"2\"", "offset=\"1\" count=\"2\"", "reach beyond"),
        ("a &amp; b", "a &b; b", "&b;"),
        ("</VRTDataset>", "", "ends"),
        ("</VRTDataset>", "</VRTDataset><a/>", "more than one"),
        ("<Group name=\"/\">", "<Group name=\"g\">", "\"/\""),
        ("<Group", "<Grp", "XML"),
    ] {
        let e = parse("m.vrt", &MOSAIC.replace(from, to)).unwrap_err().to_string();
        assert!(e.contains(part) && e.contains("m.vrt"), "{e} lacks {part}");
    }
    assert!(parse("m.vrt", "<VRTDataset rasterXSize=\"2\"/>").unwrap_err().to_string().contains("bands"));
    assert!(parse("m.vrt", "<!DOCTYPE a [<!ENTITY b \"c\">]><VRTDataset/>").is_err());
}

fn bare(v: &Value) -> Value {
    match v {
        Value::Array(list) if list.len() == 1 => list[0].clone(),
        // GDAL drops white space before a text when it reads one.
        Value::String(s) => Value::String(s.trim_start().to_owned()),
        v => v.clone(),
    }
}

fn attributes(a: &Attributes) -> Value {
    Value::Object(a.0.iter().map(|a| (a.name.clone(), bare(&a.value))).collect())
}

fn reference_attributes(v: &Value) -> Value {
    Value::Object(v.as_object().unwrap().iter().map(|(k, v)| (k.clone(), bare(&bare(v)))).collect())
}

const REAL: [(&str, &str); 2] = [
    ("mosaic.vrt", include_str!("../../tests/data/mosaic.vrt")),
    ("groups.vrt", include_str!("../../tests/data/groups.vrt")),
];

/// Everything that GDAL says of the two files (tests/data/make_mosaic.py).
#[test]
fn as_gdal_reads_it() {
    let all: Value = serde_json::from_str(include_str!("../../tests/data/mosaic.json")).unwrap();
    for (name, xml) in REAL {
        assert!(is_mosaic_vrt(&xml.as_bytes()[..xml.len().min(100)]));
        let m = parse(name, xml).unwrap();
        let reference = &all[name];
        let mut seen = serde_json::Map::new();
        for d in &m.dimensions {
            let entry = json!({"kind": d.kind, "direction": d.direction, "size": d.size, "variable": d.variable});
            seen.insert(d.name.clone(), entry);
        }
        assert_eq!(Value::Object(seen), reference["dimensions"]);

        let groups = reference["groups"].as_object().unwrap();
        assert_eq!(groups.len(), m.groups.len() + 1);
        assert_eq!(attributes(&m.attributes), reference_attributes(&groups[""]));
        for (name, a) in &m.groups {
            assert_eq!(attributes(a), reference_attributes(&groups[name]));
        }

        let arrays = reference["arrays"].as_object().unwrap();
        assert_eq!(arrays.len(), m.arrays.len());
        for a in &m.arrays {
            let r = &arrays[&a.name];
            let dims: Vec<&str> = a.dims.iter().map(|d| m.dimensions[*d].name.as_str()).collect();
            assert_eq!(json!(dims), r["dims"], "{}", a.name);
            let sizes = a.block_size.clone().unwrap_or_else(|| vec![0; dims.len()]);
            assert_eq!((json!(a.dtype), json!(sizes)), (r["dtype"].clone(), r["block_size"].clone()));
            assert_eq!(json!(a.unit.clone().unwrap_or_default()), r["unit"]);
            assert_eq!((json!(a.offset), json!(a.scale)), (r["offset"].clone(), r["scale"].clone()));
            assert_eq!(json!(a.srs.as_ref().map(|s| &s.mapping)), r["mapping"]);
            if let Some(code) = r["epsg"].as_str() {
                assert!(a.srs.as_ref().unwrap().wkt.ends_with(&format!("ID[\"EPSG\",{code}]]")));
            }
            match a.nodata_value() {
                Some(v) => {
                    let wanted = crate::model::json_to_f64(&r["nodata"]).unwrap();
                    assert!(v == wanted || v.is_nan() && wanted.is_nan(), "{}: {v} {wanted}", a.name);
                }
                None => assert_eq!(r["nodata"], Value::Null, "{}", a.name),
            }
            assert_eq!(attributes(&a.attributes), reference_attributes(&r["attributes"]), "{}", a.name);
            let values = match &a.content {
                Content::Inline(texts) => texts.iter().map(|t| t.parse().unwrap()).collect(),
                Content::Regular { start, increment } => {
                    (0..m.dimensions[a.dims[0]].size).map(|i| start + i as f64 * increment).collect()
                }
                _ => Vec::<f64>::new(),
            };
            if !values.is_empty() {
                assert_eq!(json!(values), r["values"], "{}", a.name);
            }
        }
    }
}

/// What make_mosaic.py put where.
#[test]
fn sources_of_a_real_mosaic() {
    let m = parse("/d/mosaic.vrt", REAL[0].1).unwrap();
    assert_eq!(m.sources, ["/d/day é/1 & 2.nc", "/d/day é/3.nc", "/d/day é/4.nc"]);
    for (name, shape) in [("sst", vec![2, 2, 3, 4]), ("speed", vec![2, 3, 4]), ("time_bnds", vec![2, 2])] {
        let Content::Sources(list) = &m.arrays.iter().find(|a| a.name == name).unwrap().content else { panic!() };
        for (i, s) in list.iter().enumerate() {
            let mut dest = vec![0; shape.len()];
            dest[0] = 2 * i as u64;
            let wanted = VrtSource {
                source: i as u32,
                source_array: name.into(),
                src_offset: vec![0; shape.len()],
                count: shape.clone(),
                dest,
            };
            assert_eq!(*s, wanted);
        }
    }
    let weights = m.arrays.iter().find_map(|a| a.attributes.get("weights")).unwrap();
    assert_eq!(weights.dtype.as_deref(), Some("<f4"));
    assert_eq!(weights.value, json!([f64::from(0.1f32), f64::from(-1e30f32), "Infinity"]));
}

#[test]
fn inline_values_in_parts_and_strings() {
    let array = |body: &str| {
        let xml = format!(
            "<VRTDataset><Group name='/'><Dimension name='y' size='2'/><Dimension name='x' size='3'/>\
             <Array name='a'><DataType>String</DataType><DimensionRef ref='y'/><DimensionRef ref='/x'/>{body}</Array>\
             </Group></VRTDataset>"
        );
        parse("m.vrt", &xml).map(|m| m.arrays[0].content.clone())
    };
    let texts = |list: [&str; 6]| Content::Inline(list.map(str::to_owned).to_vec());
    let parts = "<InlineValues offset='0,1' count='2,2'>1, 2 4,5</InlineValues><InlineValues offset='0,0' count='2,1'>0\n3</InlineValues>";
    assert_eq!(array(parts).unwrap(), texts(["0", "1", "2", "3", "4", "5"]));
    let value = |t: &str| format!("<Value>{t}</Value>");
    let strings: String = ["a b", "", "&#233;&lt;", "<![CDATA[<x>]]>", " c", "d"].map(value).concat();
    let strings = format!("<InlineValuesWithValueElement>{strings}</InlineValuesWithValueElement>");
    assert_eq!(array(&strings).unwrap(), texts(["a b", "", "é<", "<x>", " c", "d"]));
    assert_eq!(array("<ConstantValue>7</ConstantValue>").unwrap(), Content::Constant("7".into()));
    assert_eq!(array("<Overviews><ArrayFullName>/o</ArrayFullName></Overviews>").unwrap(), Content::Empty);
    for (bad, part) in [
        ("<InlineValues offset='0,0' count='2,2'>1 2 4 5</InlineValues>", "4 inline values"),
        (
            "<InlineValues offset='0,0' count='1,3'>1 2 3</InlineValues><InlineValues offset='0,0' count='1,3'>1 2 3</InlineValues>",
            "overlap",
        ),
        ("<InlineValues count='4294967296,4294967296'>1</InlineValues>", "beyond"),
        ("<ConstantValue count='1,1'>1</ConstantValue>", "part"),
        ("<InlineValues>1 2 3 4 5 <b/>6</InlineValues>", "<b>"),
    ] {
        let e = array(bad).unwrap_err().to_string();
        assert!(e.contains(part), "{e} lacks {part}");
    }
}

#[test]
fn depth_is_bounded() {
    let n = 200_000;
    for element in ["<a>", "<Group name='g'>"] {
        let xml = format!("<VRTDataset><Group name='/'>{}", element.repeat(n));
        assert!(parse("m.vrt", &xml).unwrap_err().to_string().contains("deep"));
    }
    let many = format!("<VRTDataset {}><Group name='/'/></VRTDataset>", "a='1' ".repeat(n));
    assert!(parse("m.vrt", &many).is_ok());
}

/// Deterministic mutations of real files: an error or a mosaic whose own rules hold, never a panic.
#[test]
fn mutations_never_panic() {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = move |n: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % n.max(1) as u64) as usize
    };
    let pieces: [&[u8]; 14] = [
        b"<",
        b">",
        b"/",
        b"\"",
        b"&",
        b"18446744073709551615",
        b"-1",
        b"0",
        b",",
        b" ",
        b"<!--",
        b"]]>",
        b"</Array>",
        b"\xc3",
    ];
    let mut parsed = 0;
    for round in 0..4000 {
        let mut bytes = REAL[round % 2].1.as_bytes().to_vec();
        for _ in 0..=next(3) {
            let at = next(bytes.len());
            match next(4) {
                0 => bytes[at] = next(256) as u8,
                1 => drop(bytes.drain(at..(at + next(60)).min(bytes.len()))),
                2 => drop(bytes.splice(at..at, pieces[next(pieces.len())].iter().copied())),
                _ => {
                    let piece = bytes[at..(at + next(300)).min(bytes.len())].to_vec();
                    let to = next(bytes.len());
                    drop(bytes.splice(to..to, piece));
                }
            }
        }
        is_mosaic_vrt(&bytes);
        let Ok(m) = parse("m.vrt", &String::from_utf8_lossy(&bytes)) else { continue };
        parsed += 1;
        for a in &m.arrays {
            let shape: Vec<u64> = a.dims.iter().map(|d| m.dimensions[*d].size).collect();
            let Content::Sources(list) = &a.content else { continue };
            for s in list {
                assert!((s.source as usize) < m.sources.len());
                for lists in [&s.src_offset, &s.count, &s.dest] {
                    assert_eq!(lists.len(), shape.len());
                }
                assert!((0..shape.len()).all(|i| s.count[i] > 0 && s.dest[i] + s.count[i] <= shape[i]));
            }
        }
    }
    assert!(parsed > 100, "{parsed}");
}
