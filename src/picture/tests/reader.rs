//! A strict reader of markup: it knows elements, attributes in double quotes, text and five entities.

/// An element in the order of its start, with the text right in it.
#[derive(Clone, Debug)]
pub struct Element {
    pub tag: String,
    pub attributes: Vec<(String, String)>,
    pub text: String,
}

impl Element {
    pub fn get(&self, name: &str) -> Option<&str> {
        let found = self.attributes.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str())
    }

    pub fn has_class(&self, class: &str) -> bool {
        self.get("class").is_some_and(|all| all.split(' ').any(|one| one == class))
    }
}

/// The elements of a text with one root, or the first fault.
pub fn read(text: &str) -> Result<Vec<Element>, String> {
    let mut rest = text.strip_prefix("<!DOCTYPE html>\n").unwrap_or(text);
    let (mut elements, mut open): (Vec<Element>, Vec<usize>) = (Vec::new(), Vec::new());
    while !rest.is_empty() {
        let Some(tag) = rest.strip_prefix('<') else {
            let end = rest.find('<').unwrap_or(rest.len());
            let Some(&parent) = open.last() else {
                return Err(format!("text outside of the root: {:.40}", &rest[..end]));
            };
            elements[parent].text.push_str(&plain(&rest[..end])?);
            rest = &rest[end..];
            continue;
        };
        let end = tag.find('>').ok_or("a tag without end")?;
        let (inside, after) = (&tag[..end], &tag[end + 1..]);
        rest = after;
        if let Some(name) = inside.strip_prefix('/') {
            let last = open.pop().ok_or("an end without a start")?;
            if elements[last].tag != name {
                return Err(format!("</{name}> ends <{}>", elements[last].tag));
            }
            continue;
        }
        if open.is_empty() && !elements.is_empty() {
            return Err("a second root".into());
        }
        let (inside, is_empty) =
            inside.strip_suffix('/').map_or((inside, false), |inside| (inside, true));
        elements.push(start(inside)?);
        if !is_empty {
            open.push(elements.len() - 1);
        }
    }
    if open.is_empty() { Ok(elements) } else { Err("an element without end".into()) }
}

fn start(inside: &str) -> Result<Element, String> {
    let (tag, mut rest) = inside.split_at(inside.find(' ').unwrap_or(inside.len()));
    check_name(tag)?;
    let mut attributes: Vec<(String, String)> = Vec::new();
    while !rest.is_empty() {
        let pair = rest.strip_prefix(' ').ok_or("no space before an attribute")?;
        let (name, value) = pair.split_once("=\"").ok_or("an attribute without a value")?;
        check_name(name)?;
        let end = value.find('"').ok_or("a value without end")?;
        if attributes.iter().any(|(other, _)| other == name) {
            return Err(format!("{name} twice in <{tag}>"));
        }
        attributes.push((name.to_owned(), plain(&value[..end])?));
        rest = &value[end + 1..];
    }
    Ok(Element { tag: tag.to_owned(), attributes, text: String::new() })
}

fn check_name(name: &str) -> Result<(), String> {
    let is_fine = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let fine = name.starts_with(|c: char| c.is_ascii_alphabetic()) && name.chars().all(is_fine);
    if fine { Ok(()) } else { Err(format!("{name:?} is no name")) }
}

/// The text with entities resolved. XML has no other control characters than tab and line ends.
fn plain(text: &str) -> Result<String, String> {
    if let Some(bad) = text.chars().find(|c| *c == '<' || (c.is_control() && !"\n\t".contains(*c)))
    {
        return Err(format!("{bad:?} in {text:?}"));
    }
    let mut parts = text.split('&');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (name, after) = part.split_once(';').ok_or_else(|| format!("a bare & in {text:?}"))?;
        plain.push(match name {
            "amp" => '&',
            "lt" => '<',
            "gt" => '>',
            "quot" => '"',
            "apos" => '\'',
            _ => return Err(format!("&{name}; is not known")),
        });
        plain.push_str(after);
    }
    Ok(plain)
}

#[test]
fn faults_are_found() {
    assert!(read("<a b=\"&amp;\">x<c/></a>").is_ok());
    for bad in [
        "<a>",
        "</a>",
        "<a></b>",
        "<a/><b/>",
        "x",
        "<a b=c></a>",
        "<a b=\"1\" b=\"2\"/>",
        "<a>&</a>",
        "<a>&nbsp;</a>",
        "<a b=\"<\"/>",
        "<1/>",
        "<a>\u{1}</a>",
    ] {
        assert!(read(bad).is_err(), "{bad}");
    }
}
